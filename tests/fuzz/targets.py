"""All targets, by name."""

from __future__ import annotations

from .backup_targets import BACKUP_TARGETS
from .document_targets import DOCUMENT_TARGETS
from .file_targets import FILE_TARGETS
from .grpc_targets import GRPC_TARGETS
from .kernel_targets import KERNEL_TARGETS
from .proxy_targets import PROXY_TARGETS
from .security_targets import SECURITY_TARGETS
from .wire_targets import WIRE_TARGETS

TARGETS = {
    target.name: target
    for target in (
        *KERNEL_TARGETS,
        *WIRE_TARGETS,
        *DOCUMENT_TARGETS,
        *FILE_TARGETS,
        *SECURITY_TARGETS,
        *BACKUP_TARGETS,
        *PROXY_TARGETS,
        *GRPC_TARGETS,
    )
}
