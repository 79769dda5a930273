// Package event has the commands of events and of the inboxes of consumers.
package event
