"""An archive's files: their manifests, how a commit gets in whole, and comparing what they hold."""
