//go:build race

package alert_test

// raceFactor is how much slower the race detector makes everything.
const raceFactor = 15
