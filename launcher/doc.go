// Package launcher is step 5 of a slot's life. It records the key, loads the DAG
// of the workflow and sends the run to an executor, with one effect.
package launcher
