"""How a message leaves a producer: checked, batched, sent, retried."""
