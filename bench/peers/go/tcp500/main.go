// Command tcp500 answers whatever it reads with 500 bytes, with a goroutine per connection.
// Usage: tcp500 PORT. GOMAXPROCS gives the number of cores.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"strings"
)

func serve(connection net.Conn, answer []byte) {
	defer connection.Close()
	buffer := make([]byte, 2048)
	for {
		if _, err := connection.Read(buffer); err != nil {
			return
		}
		if _, err := connection.Write(answer); err != nil {
			return
		}
	}
}

func main() {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 460\r\n\r\n"
	answer := []byte(head + strings.Repeat("x", 500-len(head)))
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%s", os.Args[1]))
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Print(err)
			continue
		}
		go serve(connection, answer)
	}
}
