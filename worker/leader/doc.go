// Package leader decides which worker plans and fires a shard.
package leader
