// Package topic has the commands of topics.
package topic
