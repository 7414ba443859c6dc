// Command calls is the Go side of the workloads `blocking` and `switch`: goroutines that call C, and goroutines alone.
// It prints the seconds that the work took, and the bytes of memory in use before it. Usage: calls
// sleep|hold|ask|empty|switch|spawn CALLERS TIMES. bench/peers/c/calls.c describes the work. `empty` calls a C function
// that does nothing.
package main

// #include "call.h"
import "C"

import (
	"log"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

func callers(n int, body func(int)) {
	var group sync.WaitGroup
	group.Add(n)
	C.call_measure_begin()
	for i := 0; i < n; i++ {
		go func(i int) {
			body(i)
			group.Done()
		}(i)
	}
	group.Wait()
	C.call_measure_end()
}

func repeat(times int, body func()) {
	for i := 0; i < times; i++ {
		body()
	}
}

func ask(n, times int) {
	descriptors := make([]C.int, n)
	for i := range descriptors {
		descriptors[i] = C.call_open()
	}
	callers(n, func(i int) { repeat(times, func() { C.call_ask(descriptors[i]) }) })
}

func takeTurns(n, times int) {
	var turn atomic.Int64
	callers(n, func(i int) {
		repeat(times, func() {
			for turn.Load() != int64(i) {
				runtime.Gosched()
			}
			turn.Store(int64((i + 1) % n))
		})
	})
}

func spawn(n, times int) {
	callers(n, func(int) {
		repeat(times, func() {
			ended := make(chan struct{})
			go close(ended)
			<-ended
		})
	})
}

func number(index int) int {
	n, err := strconv.Atoi(os.Args[index])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: calls WORK CALLERS TIMES")
	}
	n, times := number(2), number(3)
	switch os.Args[1] {
	case "sleep":
		callers(n, func(int) { repeat(times, func() { C.call_sleep(1) }) })
	case "hold":
		callers(n, func(int) { repeat(times, func() { C.call_sleep(500) }) })
	case "ask":
		ask(n, times)
	case "empty":
		callers(n, func(int) { repeat(times, func() { C.call_nothing(0) }) })
	case "switch":
		takeTurns(n, times)
	case "spawn":
		spawn(n, times)
	default:
		log.Fatal("unknown work: " + os.Args[1])
	}
}
