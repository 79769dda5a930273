// Package workflow has the commands of workflow: put, get, list, deploy, share,
// unshare and shares.
package workflow
