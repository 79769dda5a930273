// Package app is the only place that knows everything: it reads the
// configuration, opens the store, builds the roles that this process plays and
// runs them until it is told to end.
package app
