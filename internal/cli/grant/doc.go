// Package grant has the commands of grant: create, get, list and revoke.
package grant
