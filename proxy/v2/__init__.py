"""The gRPC protocol of RocketMQ 5 (apache.rocketmq.v2): what decides is pure; the rest are coroutines over `back`."""
