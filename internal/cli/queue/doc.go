// Package queue has the commands of dispatch queues: queue and enqueue.
package queue
