// Package schedule has the commands of schedule: upsert, set, edit, get, list, pause,
// resume, trigger, delete, events and revisions.
package schedule
