"""What an examination of a server finds, and the rules that it judges by. Pure."""
