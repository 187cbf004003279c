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
golden_traced:
    push rbx
    sub rsp,0x10
    mov rax,QWORD PTR [__RINGTRACE_GATE]
    test rax,rax
    jne .L2
    xor eax,eax
.L0:
    mov QWORD PTR [rsp+0x8],rdi
    lea rcx,[rsp+0x8]
    mov rbx,QWORD PTR [rsp+0x8]
    test rax,rax
    jne .L3
.L1:
    add rbx,0x4
    mov rax,rbx
    add rsp,0x10
    pop rbx
    ret
.L2:
    mov rbx,rdi
    call begin
    mov rdi,rbx
    jmp .L0
.L3:
    mov rdi,rax
    call leave_scope
    jmp .L1
