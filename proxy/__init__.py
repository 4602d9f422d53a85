"""The proxy: RocketMQ's own clients reach the cluster by their own protocols. Stateless; nothing that must survive is here."""
