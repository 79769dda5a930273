// Package leadertest holds a leader lock, together with a store's leaders row,
// to what package leader promises. It takes no step in a slot's life: only
// tests import it. Every lock runs the same suite.
package leadertest
