// Command timers is the Go side of the timer workloads. It prints the seconds that the work took.
// Usage: timers sleepers|floor|callbacks|arm|lateness N, timers timeouts THREADS CALLS, timers rearm TIMERS ROUNDS.
// bench/millrace/app/Timers.hs describes the workloads. GOMAXPROCS is the number of cores.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Runs body in n goroutines and waits for all.
func goroutines(n int, body func()) {
	var group sync.WaitGroup
	group.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			body()
			group.Done()
		}()
	}
	group.Wait()
}

func sleepers(n int) {
	goroutines(n, func() { time.Sleep(time.Millisecond) })
}

// n goroutines wait until a channel is closed, instead of sleeping.
func floor(n int) {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(n)
	done.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			ready.Done()
			<-gate
			done.Done()
		}()
	}
	ready.Wait()
	close(gate)
	done.Wait()
}

func callbacks(n int) {
	var group sync.WaitGroup
	group.Add(n)
	for i := 0; i < n; i++ {
		time.AfterFunc(time.Millisecond, group.Done)
	}
	group.Wait()
}

func arm(n int) {
	for i := 0; i < n; i++ {
		time.AfterFunc(10*time.Second, func() {}).Stop()
	}
}

func lateness(n int) time.Duration {
	results := make(chan time.Duration, 10*n)
	for number := 1; number <= n; number++ {
		go func(number int) {
			for turn := 1; turn <= 10; turn++ {
				delay := time.Millisecond + time.Duration((number*7919+turn*104729)%99000)*time.Microsecond
				begin := time.Now()
				time.Sleep(delay)
				results <- time.Since(begin) - delay
			}
		}(number)
	}
	all := make([]time.Duration, 10*n)
	for i := range all {
		all[i] = <-results
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

func timeouts(threads, calls int) {
	goroutines(threads, func() {
		for i := 0; i < calls; i++ {
			_, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			runtime.Gosched()
			cancel()
		}
	})
}

func rearm(timers, rounds int) time.Duration {
	live := make([]*time.Timer, timers)
	for i := range live {
		live[i] = time.AfterFunc(10*time.Second, func() {})
	}
	begin := time.Now()
	for round := 0; round < rounds; round++ {
		for _, timer := range live {
			timer.Reset(10 * time.Second)
		}
	}
	return time.Since(begin)
}

func number(index int) int {
	if index >= len(os.Args) {
		log.Fatal("a number is missing; bench/millrace/app/Timers.hs describes the arguments")
	}
	n, err := strconv.Atoi(os.Args[index])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: timers WORK NUMBER...")
	}
	begin := time.Now()
	var elapsed time.Duration
	switch os.Args[1] {
	case "sleepers":
		sleepers(number(2))
	case "floor":
		floor(number(2))
	case "callbacks":
		callbacks(number(2))
	case "arm":
		arm(number(2))
	case "lateness":
		elapsed = lateness(number(2))
	case "timeouts":
		timeouts(number(2), number(3))
	case "rearm":
		elapsed = rearm(number(2), number(3))
	default:
		log.Fatal("unknown work: " + os.Args[1])
	}
	if elapsed == 0 {
		elapsed = time.Since(begin)
	}
	fmt.Printf("%.6f\n", elapsed.Seconds())
}
