// Package alert has the commands of alert and notify: open alerts, the notifications
// about them, and tests of their targets.
package alert
