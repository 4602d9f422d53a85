"""The jobs of `zenit job run NAME`; each can be called as a function too."""
