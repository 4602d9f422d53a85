"""The request handlers of a broker, one module for each subject."""
