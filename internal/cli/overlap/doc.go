// Package overlap has the commands of overlap groups.
package overlap
