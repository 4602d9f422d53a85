"""The certificate of a proxy, as both of its fronts serve it."""

from __future__ import annotations

import ssl
from typing import Final

from ..model.errors import ConfigError
from ..model.security.guarded_file import PRIVATE, read_guarded
from .config import ProxyConfig

KEY_BYTES_MAX: Final = 64 * 1024


def tls_context(config: ProxyConfig) -> ssl.SSLContext | None:
    """None where it serves no TLS. Raises ConfigError, KeyFileRefused."""
    if not config.tls_certificate:
        return None
    read_guarded(config.tls_key, forbidden=PRIVATE, bytes_max=KEY_BYTES_MAX)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    except ssl.SSLError as error:
        said = (error.reason or str(error)).lower().replace("_", " ")
        raise ConfigError(
            "tls_certificate", config.tls_certificate, f"a certificate, and its key in tls_key ({said})"
        ) from None
    except OSError as error:
        raise ConfigError(
            "tls_certificate", config.tls_certificate, f"a file that can be read ({error.strerror})"
        ) from None
    return context
