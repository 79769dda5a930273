// Package explain has the command explain: why a schedule ran or did not run at a
// time.
package explain
