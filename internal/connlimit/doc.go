// Package connlimit limits unauthenticated callers: connections in total and for each
// peer, and the HTTP/2 calls and resets on them.
//
// A connection is anonymous until a caller authenticates on it (Conn.Identify). At a
// limit, the anonymous connection that has been idle longest is closed; a new connection
// is refused only if there is none.
package connlimit
