// Package launchertest holds executors for tests: Null does nothing, fast. Executor
// keeps the contract of keys (or breaks it on request) while its answers are delayed,
// lost or refused. Effects counts what runs really did.
package launchertest
