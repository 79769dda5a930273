package cli

// NewRootCommand is for tests of all commands.
var NewRootCommand = newRootCommand
