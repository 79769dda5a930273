//go:build !failpoints

package failpoint

// Hit does nothing in a binary without the tag.
func Hit(string) {}
