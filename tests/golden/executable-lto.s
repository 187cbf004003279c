golden_call:
    mov rax,rdi
    mov rcx,QWORD PTR [__RINGTRACE_GATE]
    test rcx,rcx
    jne .L0
    inc rax
    ret
.L0:
    push rbx
    mov rbx,rax
    mov rdi,rax
    call __emit
    mov rax,rbx
    pop rbx
    inc rax
    ret
golden_fire:
    mov rax,rdi
    mov rcx,QWORD PTR [__RINGTRACE_GATE]
    test rcx,rcx
    jne .L0
    add rax,0x2
    ret
.L0:
    push rbx
    mov rbx,rax
    mov rdi,rax
    call costly
    mov rdi,rax
    call __emit
    mov rax,rbx
    pop rbx
    add rax,0x2
    ret
