// Package group has the commands of groups of runs.
package group
