"""The ready jobs: `zenit job run NAME`, each a function as well."""
