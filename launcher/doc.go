// Package launcher is step 5 of a slot's life: it records the key, loads the
// workflow's DAG and hands the run to an executor, once in effect.
package launcher
