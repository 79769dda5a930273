// Package client calls a Carillon server for the command line: flags of the
// connection, calls with a timeout, pages, errors that say what to do, and what a
// shell completes from the server.
package client
