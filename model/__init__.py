"""Values every role speaks: messages, ids, queues, routes, subscriptions, errors, the clock, configuration.

Nothing here imports another folder of ours, opens a socket or a file of the store, or starts a thread.
"""
