// Package apply has the commands for schedules in files: apply, drift and export.
package apply
