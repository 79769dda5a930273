//go:build race

package sim_test

// raced says that the race detector is on: it shuffles goroutines on purpose.
const raced = true
