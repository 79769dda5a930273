// Package terms checks histories of concurrent takeovers, renewals and resignations
// against one register (linearizability).
package terms
