// Package bucket tests the object stores of workflows on a folder and on a server that
// speaks S3.
package bucket
