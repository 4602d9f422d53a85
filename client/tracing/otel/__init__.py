"""Spans and metrics for OpenTelemetry; `zenitmq.otel` is what users see of it."""
