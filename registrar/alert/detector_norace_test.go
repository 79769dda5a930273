//go:build !race

package alert_test

const raceFactor = 1
