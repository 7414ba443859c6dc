// Command toolkit is the Go side of the workloads of files, packets, processes and names. bench/millrace/app/Toolkit.hs
// describes the work. Usage: toolkit WORK PATH CALLERS TIMES
package main

// #include "toolkit.h"
import "C"

import (
	"context"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

const blockBytes = 4096

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func callers(n int, body func(int)) {
	var group sync.WaitGroup
	group.Add(n)
	C.toolkit_begin()
	for i := 0; i < n; i++ {
		go func(i int) {
			body(i)
			group.Done()
		}(i)
	}
	group.Wait()
	C.toolkit_end()
}

func block() []byte {
	whole := make([]byte, 2*blockBytes)
	begin := blockBytes - int(uintptr(unsafe.Pointer(&whole[0]))%blockBytes)
	return whole[begin : begin+blockBytes]
}

func read(path string, flags, n, times int) {
	file, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	check(err)
	about, err := file.Stat()
	check(err)
	blocks := uint64(about.Size() / blockBytes)
	callers(n, func(i int) {
		buffer := block()
		state := uint64(i+1) * 0x9e3779b97f4a7c15
		for left := times; left > 0; left-- {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			_, err := file.ReadAt(buffer, int64(state>>11%blocks)*blockBytes)
			check(err)
		}
	})
}

func run(n, times int) {
	callers(n, func(int) {
		for left := times; left > 0; left-- {
			check(exec.Command("true").Run())
		}
	})
}

func walk(path string) {
	count := 0
	callers(1, func(int) {
		check(filepath.WalkDir(path, func(string, fs.DirEntry, error) error {
			count++
			return nil
		}))
	})
}

func echo(burst, packets int) {
	descriptor := C.toolkit_udp_server()
	C.toolkit_udp_load(descriptor, C.long(packets), C.int(burst))
	file := os.NewFile(uintptr(descriptor), "server")
	connection, err := net.FilePacketConn(file)
	check(err)
	server := connection.(*net.UDPConn)
	callers(1, func(int) {
		buffer := make([]byte, 2048)
		for left := packets; left > 0; left-- {
			size, from, err := server.ReadFromUDPAddrPort(buffer)
			check(err)
			_, err = server.WriteToUDPAddrPort(buffer[:size], from)
			check(err)
		}
	})
}

func names(n, times int) {
	callers(n, func(int) {
		for left := times; left > 0; left-- {
			_, err := net.DefaultResolver.LookupHost(context.Background(), "localhost")
			check(err)
		}
	})
}

func number(index int) int {
	n, err := strconv.Atoi(os.Args[index])
	check(err)
	return n
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: toolkit WORK PATH CALLERS TIMES")
	}
	path, n, times := os.Args[2], number(3), number(4)
	switch os.Args[1] {
	case "read":
		read(path, 0, n, times)
	case "direct":
		read(path, syscall.O_DIRECT, n, times)
	case "processes":
		run(n, times)
	case "walk":
		walk(path)
	case "echo":
		echo(n, times)
	case "names":
		names(n, times)
	default:
		log.Fatal("unknown work: " + os.Args[1])
	}
}
