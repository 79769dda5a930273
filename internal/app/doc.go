// Package app is the composition root: it reads the configuration, opens the store, builds the roles of
// this process and runs them until shutdown.
package app
