// Command testsummary runs `go test` with the arguments that it is given and
// prints what a person wants to see of it: one line per package as it ends,
// every failure in full, why tests were skipped, and as its last line
//
//	N passed, N failed, N skipped
//
// -also DIR, which comes first and may be repeated, runs the same in the module
// of that directory, and counts its tests as well.
//
// It ends with go test's own exit code, the first that is not 0. Counted are the tests that have no
// subtests, and the subtests; a package that does not build, or that fails
// outside of any test, counts as one failure.
package main
