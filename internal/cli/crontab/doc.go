// Package crontab has the command import crontab. It turns each line of a crontab into
// a workflow with one command and one schedule, as `carillon apply` takes them. It
// reads what cron of Debian, cronie and the BSDs read: comments, settings, CRON_TZ,
// macros, the user column of a system crontab, and % in commands. What cannot be
// imported is listed line by line.
package crontab
