// Package connlimit bounds what a caller can take before it has authenticated:
// connections in all and for each peer, and the HTTP/2 calls and resets on them.
// It takes no step in a slot's life.
//
// A connection is anonymous until somebody authenticates on it (Conn.Identify).
// At a limit, the anonymous connection that has been idle longest is closed to
// make room, and a new connection is refused only where there is none.
package connlimit
