// Package crontab turns a crontab into workflows with schedules, for step 1 of a
// slot's life, upsert: each line becomes a DAG of one command with one trigger,
// as `carillon apply` takes them. It reads what cron of Debian, cronie and the
// BSDs read: comments, settings, CRON_TZ, macros, the user column of a system
// crontab, and % in commands. What it cannot carry over it names, line by line;
// nothing is dropped in silence.
package crontab
