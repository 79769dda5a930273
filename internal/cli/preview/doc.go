// Package preview has the commands that show what will happen: preview, forecast
// and simulate. preview works without a server.
package preview
