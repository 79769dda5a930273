// Package launchertest holds executors for tests: Null, which does nothing
// fast, and Executor, which keeps the contract of keys (or breaks it, if told)
// while its answers are delayed, lost or refused. What a run really did stands
// in Effects: tests of "once in effect" ask there.
package launchertest
