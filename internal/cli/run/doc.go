// Package run has the commands of run: list, get, logs, watch, export, report,
// cancel, retry and redrive; and webhook.
package run
