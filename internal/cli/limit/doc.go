// Package limit has the commands of limits.
package limit
