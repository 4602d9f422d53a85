"""RocketMQ's classic remoting protocol, as its 4.x and 5.x clients for Java, C++ and Go speak it."""
